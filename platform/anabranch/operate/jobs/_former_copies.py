"""Programs that each project had a copy of before the package had them (until November 2026)."""

from __future__ import annotations

from typing import Final

FORMER_COPIES: Final = frozenset(
    {
        "0ccdad62b902e2bf4b5dc5ff2f78acba021d3a57025d9c16f4b1c368c5734a21",
        "191bf1e04df1e4c8c6a3ff92ef42eb7ef6c607b50184a3e56fcbc76159281d1c",
        "1961cbcebb24ae89ea678e77788ca3bbd28d70c5359441b5035e07d5ec13c9e9",
        "222fb1193155b027fa14ca99ac1f96b54f0cafa1fb850bde0269fb0d0a1b5380",
        "27351d524ff6ce4b88bc9dd34b99654f85d6155592668c66f0abd92dc30d4c24",
        "2a9fd599c57191f96ee53e1cf9bfdbd6437a42686e7b906209de73bd53643128",
        "2fd9b6285d2409b7de85761183b3069f6db925e29e61eb81c9d6a6f037d6eff2",
        "32711d7e6a802db1550926e607934aba7d2c23ef02a003475c1ca8fb9b257e20",
        "3e4d550fab0c2d781c8a4bc3c5f030c4a498e58863a4a7c3ac2fa803830898ea",
        "523ad0ada40bbd7ab628a3c0c38f49e9496a02ff704c0858b0de8b3f18a7afa7",
        "5650769aab60f3a79487c769fe9e4c9aed67423f44b5e51e85416a7c0e2d3afb",
        "5703f9a81a19f124edb555c436dd722919ad0f3eb92fe0a2e0c1d3d21cf22a43",
        "5edace9ebbf9cdf5c70a5c62cd6a21ebe8937e83bac21388728fd7e3c0ddec95",
        "6511ab47dffa6fd8b19ec0903d8c1a22c489149005bcc146af7ca5a7d637be06",
        "66b0456dcc1bba65ae15d05b6c714e7083ee92bb9548ddf5683b2d67a22c695f",
        "779d7bd21564e6e8301fe4f898d2f27bda43c3db6dbdd4f1f2adeca2c8c89b85",
        "962dc0c70f0a57f34da09f3f182e7b5dddf65a22c5151733e4aa492daec2687c",
        "9d283f3fb5cf38ed1efd1d5870deb284e3eb5366f983ca10a30b81e35aad5cb3",
        "9da153fe70dcf237201183a661e5f085a0b114532417770997a428f0da557aac",
        "a019e6a86b916fb5cfe88aad30614ae4eec3b0d51536af9708f82304f6ebf684",
        "a79e7f807e9ec5d01e4b2bdf4d3475863a3b66746d244466b09d3f459796f4db",
        "b2c74de0f6cbea296dab14fd4fcfe48293de4f20138291b51530e87ca1fef837",
        "b57e41a2ffe138116affb149f23e27a3e790b74a9bdaff0c734b07ac2fe3bd60",
        "b62315b1f8965003135ca044a3a953dd9fb5225ae09fd27f55ba3036fa74ec53",
        "d98c8403d26e342027a79368df5039fe5b441d8c403f20352dc3de4f20e6fbc7",
        "f29e02ef0330e76fe26bc0a3c222bfbfd6af91b8055decea8ef60bb577963bf6",
    }
)
"""The SHA-256 of each that any version has written, in hexadecimal."""
