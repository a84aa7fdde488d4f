"""What routes, migrations and readers promise, as a model: versions 1 and 2, whole epochs, one clock in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from anabranch.serve.read_plan import BACK_SECONDS

STEPS, SOAK = (50, 100), 10.0


@dataclass(frozen=True)
class Had:
    version: int
    cut: int
    seen: int


@dataclass
class Model:
    """Each action answers what the platform answers: a state, or an error's code."""

    cuts: dict[int, int] = field(default_factory=lambda: {1: 1, 2: 1})
    now: float = 0.0
    shares: dict[int, int] = field(default_factory=dict)
    """None set: everybody has version 1."""
    set_at: float = 0.0
    state: str | None = None
    """Of the migration that the newest route tells of."""
    share: int = 0
    retired: frozenset[int] = frozenset()
    follow: int | None = None
    reached: float | None = None
    readers: dict[str, Had] = field(default_factory=dict)
    killed: str = ""
    """Where the next change of the route is killed: before its commit, or behind it."""

    def _commit(self, shares: dict[int, int], state: str | None, share: int, **more: frozenset[int]) -> str:
        killed, self.killed = self.killed, ""
        if killed != "before":
            self.shares, self.state, self.share, self.set_at = shares, state, share, self.now
            self.retired = more.get("retired", self.retired)
            self.follow = self.reached = None
        if killed:
            self.readers = {}
        return "killed" if killed else state or "set"

    def _step(self, state: str, share: int) -> str:
        return self._commit({v: s for v, s in ((1, 100 - share), (2, share)) if s}, state, share)

    def start(self) -> str:
        if self.state in ("moving", "halted"):
            return "MIGRATION_ACTIVE"
        if (self.shares or {1: 100}) != {1: 100}:
            return "READERS_ELSEWHERE"
        return "VERSION_RETIRED" if 2 in self.retired else self._step("moving", 0)

    def _look(self) -> None:
        if self.share:
            self.follow = self.cuts[1] if self.follow is None else self.follow
            if self.reached is None and self.cuts[2] >= self.follow:
                self.reached = self.now

    def advance(self) -> str:
        if self.state not in ("moving", "halted"):
            return "NOT_MOVING"
        self._look()
        if self.state == "halted":
            return "HALTED"
        if self.share and self.reached is None:
            return "READERS_FOLLOW"
        if self.reached is not None and self.now - self.reached < SOAK:
            return "SOAKING"
        share = next((step for step in STEPS if step > self.share), None)
        answer = self._step("moving", share) if share else self._step("done", 100)
        if share and answer != "killed":
            self._look()
        return answer

    def change(self, to: str) -> str:
        """Halt or resume."""
        if self.state not in ("moving", "halted"):
            return "NOT_MOVING"
        return to if self.state == to else self._step(to, self.share)

    def rollback(self) -> str:
        if self.state in (None, "rolled back"):
            return "NOT_MOVING"
        return "VERSION_RETIRED" if 1 in self.retired else self._step("rolled back", 0)

    def reboot(self) -> None:
        """Readers are other processes afterwards, and a step soaks again."""
        self.readers, self.reached = {}, None

    def set_by_hand(self, shares: dict[int, int]) -> str:
        before = self.shares or {1: 100}
        losing = [v for v, share in before.items() if share > shares.get(v, 0)]
        gaining = [v for v, share in shares.items() if share > before.get(v, 0) and v > min(losing)]
        if any(self.cuts[v] < self.cuts[left] for v in gaining for left in losing):
            return "VERSION_BEHIND"
        if self.state in ("moving", "halted"):
            return "MIGRATION_ACTIVE"
        return "VERSION_RETIRED" if self.retired & set(shares) else self._commit(shares, None, 0)

    def retire(self, version: int) -> str:
        if not self.shares or self.shares.get(version):
            return "READERS_LEFT"
        if self.state in ("moving", "halted"):
            return "MIGRATION_ACTIVE"
        return self._retire(self.retired | {version})

    def reinstate(self, version: int) -> str:
        if version not in self.retired:
            return "NOT_RETIRED"
        if self.state in ("moving", "halted"):
            return "MIGRATION_ACTIVE"
        return self._retire(self.retired - {version})

    def _retire(self, retired: frozenset[int]) -> str:
        """It moves nobody, so a migration before it can still be rolled back."""
        return "killed" if self._commit(self.shares, self.state, self.share, retired=retired) == "killed" else "set"

    def read(self, reader: str, chosen: int) -> tuple[int, int, int | None]:
        """The version, its epoch, and the newer one that the reader had seen; ``chosen`` is what the route says."""
        had = self.readers.get(reader) or Had(chosen, 0, 0)
        late = (had.version, chosen) == (2, 1) and self.now - self.set_at >= BACK_SECONDS
        if had.version != chosen and self.cuts[chosen] < had.seen and not late:
            return had.version, had.cut, None if had.cut >= had.seen else had.seen
        cut = self.cuts[chosen]
        self.readers[reader] = replace(had, version=chosen, cut=cut, seen=max(cut, had.seen))
        return chosen, cut, had.seen if cut < had.seen else None
