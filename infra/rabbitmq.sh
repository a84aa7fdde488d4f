#!/usr/bin/env bash
# RabbitMQ for the tests of queues, which start one of their own. Where systemd runs, Debian's package starts another one,
# on RabbitMQ's usual ports: systemctl disable --now rabbitmq-server, if you don't want it.
set -euo pipefail
source "${BASH_SOURCE[0]%/*}/debian_package.sh"

get rabbitmq rabbitmq-server "tests of queues" "install RabbitMQ (Debian: apt-get install rabbitmq-server)" \
  /usr/lib/rabbitmq/bin/rabbitmq-server
