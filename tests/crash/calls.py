"""Linux's own interface for holding a program at a system call: numbers, structures, and what a call names.

Source: ptrace(2), seccomp(2), <linux/seccomp.h>, <asm/unistd.h>. Only calls that give, move or take away a name are
held; all others run at full speed, since the kernel decides by a filter of its own.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SEIZE, CONT, SYSCALL, LISTEN, GET_SYSCALL_INFO = 0x4206, 7, 24, 0x4208, 0x420E
_GET_REGISTERS, _SET_REGISTERS, _GENERAL = 0x4204, 0x4205, 1
_ANSWER: Final = {"x86_64": 10, "aarch64": 0}.get(platform.machine(), 0)
"""Which of the general registers holds what a system call has answered."""
EVENT_SECCOMP, EVENT_STOP = 7, 128
SYSCALL_STOP = 0x80
"""Set in the signal of a stop behind a system call."""
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000
"""SYSGOOD, FORK, VFORK, CLONE, EXEC, SECCOMP, and EXITKILL: whoever dies takes what it holds with it."""
_ENTRY_ARGUMENTS = struct.Struct("<B3xIQQQ6Q")
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_TRACE, _ALLOW = 0x7FF00000, 0x7FFF0000
_AT_FDCWD = -100

RENAME, LINK, DELETE = "rename", "link", "delete"


@dataclass(frozen=True, slots=True)
class _Kind:
    """``name``: which argument is the path that appears or goes; ``folder``: which one it is relative to."""

    operation: str
    name: int
    folder: int | None = None


_X86_64: Final = {
    82: _Kind(RENAME, 1), 264: _Kind(RENAME, 3, 2), 316: _Kind(RENAME, 3, 2),
    86: _Kind(LINK, 1), 265: _Kind(LINK, 3, 2), 88: _Kind(LINK, 1), 266: _Kind(LINK, 2, 1),
    87: _Kind(DELETE, 0), 84: _Kind(DELETE, 0), 263: _Kind(DELETE, 1, 0),
}  # fmt: skip
_AARCH64: Final = {
    38: _Kind(RENAME, 3, 2), 276: _Kind(RENAME, 3, 2), 37: _Kind(LINK, 3, 2), 36: _Kind(LINK, 2, 1),
    35: _Kind(DELETE, 1, 0),
}  # fmt: skip
KINDS: Final = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(platform.machine(), {})


@dataclass(frozen=True, slots=True)
class Call:
    """``operation`` is about to happen (or has happened) to ``path``."""

    operation: str
    path: str


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort), ("true", ctypes.c_ubyte), ("false", ctypes.c_ubyte), ("value", ctypes.c_uint32)
    )  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filters", ctypes.POINTER(_Filter)))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]


def ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> bool:
    """Whether it was done; a process that has died meanwhile is no error."""
    return int(_libc.ptrace(request, pid, address, data)) >= 0


def seize(pid: int) -> None:
    """Hold the calls of this process, and of all that it starts."""
    if not ptrace(SEIZE, pid, 0, _OPTIONS):
        raise OSError(ctypes.get_errno(), f"process {pid} can't be traced: {os.strerror(ctypes.get_errno())}")


def be_held() -> None:
    """From now on every call of these kinds in this process is told to whoever traces it."""
    jumps = [_Filter(_EQUAL, len(KINDS) - n, 0, number) for n, number in enumerate(KINDS)]
    filters = [_Filter(_LOAD, 0, 0, 0), *jumps, _Filter(_RETURN, 0, 0, _ALLOW), _Filter(_RETURN, 0, 0, _TRACE)]
    program = _Program(len(filters), (_Filter * len(filters))(*filters))
    for option, value, at in ((_NO_NEW_PRIVS, 1, None), (_SET_SECCOMP, _FILTER, ctypes.byref(program))):
        if _libc.prctl(option, value, at, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def answer(pid: int, error: int) -> bool:
    """Let the call that the thread is held behind end with ``error`` (an errno), though it was done."""
    registers = (ctypes.c_uint64 * 64)()
    vector = _Vector(ctypes.addressof(registers), ctypes.sizeof(registers))
    if not ptrace(_GET_REGISTERS, pid, _GENERAL, ctypes.addressof(vector)):
        return False
    registers[_ANSWER] = -error & 0xFFFFFFFFFFFFFFFF
    return ptrace(_SET_REGISTERS, pid, _GENERAL, ctypes.addressof(vector))


def call_of(pid: int) -> Call | None:
    """What the thread is held at; None where it has died meanwhile."""
    buffer = ctypes.create_string_buffer(128)
    if not ptrace(GET_SYSCALL_INFO, pid, len(buffer), ctypes.addressof(buffer)):
        return None
    _, _, _, _, number, *arguments = _ENTRY_ARGUMENTS.unpack_from(buffer.raw)
    kind = KINDS[number]
    path = _text(pid, arguments[kind.name])
    if path is None:
        return None
    if not path.startswith("/"):
        folder = ctypes.c_int(arguments[kind.folder] & 0xFFFFFFFF).value if kind.folder is not None else _AT_FDCWD
        where = "cwd" if folder == _AT_FDCWD else f"fd/{folder}"
        try:
            path = str(Path(f"/proc/{pid}/{where}").readlink() / path)
        except OSError:
            return None
    return Call(kind.operation, path)


def _text(pid: int, address: int) -> str | None:
    """A C string of another process."""
    found = b""
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            while b"\0" not in found and len(found) < 4096:
                # Not over the end of its page: the next one may not be there.
                found += memory.read(min(256, 4096 - (address + len(found)) % 4096))
    except OSError:
        return None
    return os.fsdecode(found.partition(b"\0")[0])
