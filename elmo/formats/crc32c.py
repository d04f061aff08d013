"""crc32c (Castagnoli), the checksum of TensorFlow's files, fast enough for large arrays.

A checksum is linear: that of the whole is the exclusive or of its parts' checksums, each padded with zeros. So numpy
reads thousands of parts side by side, and their checksums are combined afterwards.
"""

from functools import cache

import numpy as np

POLYNOMIAL = 0x82F63B78
LANES = 4096
"""Parts read side by side; their states and the tables fit in the cache."""
MASK = 0xA282EAD8


def masked(checksum: int) -> int:
    """The checksum as LevelDB and TensorFlow store it."""
    return ((checksum >> 15 | checksum << 17) + MASK) & 0xFFFFFFFF


def crc32c(data: bytes | np.ndarray) -> int:
    """The checksum of `data`, or of the bytes of an array."""
    raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
    words = len(raw) // (4 * LANES)
    cut = 4 * LANES * words
    state = 0xFFFFFFFF
    if words:
        state = _shift(np.array([state], np.uint32), cut)[0] ^ _lanes(raw[:cut].view("<u4").reshape(LANES, words))
    table = _tables()[0]
    for byte in raw[cut:].tolist():
        state = int(table[(int(state) ^ byte) & 0xFF]) ^ int(state) >> 8
    return int(state) ^ 0xFFFFFFFF


def _lanes(words: np.ndarray) -> np.uint32:
    """The state (from zero) after all rows of (LANES, words), the rows one after another."""
    low, high = _tables()[1:]
    state = np.zeros(len(words), np.uint32)
    for column in words.T:
        state ^= column
        state = low[state & 0xFFFF] ^ high[state >> 16]
    length = 4 * words.shape[1]
    while len(state) > 1:  # neighbours in pairs: the second's bytes follow the first
        state = _shift(state[::2], length) ^ state[1::2]
        length *= 2
    return state[0]


def _shift(states: np.ndarray, length: int) -> np.ndarray:
    """The states after `length` zero bytes more."""
    columns = _zeros(length)
    result = np.zeros_like(states)
    for bit in range(32):
        result ^= np.where(states >> np.uint32(bit) & np.uint32(1), columns[bit], np.uint32(0))
    return result


@cache
def _zeros(length: int) -> tuple[np.uint32, ...]:
    """The states of one bit each after `length` zero bytes: the columns of a matrix over GF(2)."""
    if length == 1:
        table = _tables()[0]
        return tuple(table[1 << bit & 0xFF] ^ np.uint32(1 << bit >> 8) for bit in range(32))
    half = np.array(_zeros(length // 2), np.uint32)
    twice = _shift(half, length // 2)
    return tuple(_shift(twice, 1)) if length % 2 else tuple(twice)


@cache
def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The states after one byte, and after four bytes, given the low and the high half of state and input together."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = table >> np.uint32(1) ^ np.where(table & 1, np.uint32(POLYNOMIAL), np.uint32(0))

    def after(states: np.ndarray, count: int) -> np.ndarray:
        for _ in range(count):
            states = table[states & 0xFF] ^ states >> np.uint32(8)
        return states

    halves = np.arange(1 << 16, dtype=np.uint32)
    return table, after(halves, 4), after(halves << np.uint32(16), 4)
