"""Closes the connections of slow clients; uvicorn would wait for a request's head for ever."""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """Disconnects a client that sends no complete request head, or reads nothing of a response, for `seconds`.

    `elmo.server.guard` handles slow bodies, since it can still respond.
    """

    def __init__(self, *given: Any, seconds: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self._seconds = seconds
        self._sending: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does this only if a socket names its protocol. Without it, a body waits 40 ms for its head's ACK.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sending = self.loop.call_later(self._seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._sending = _stopped(self._sending)
        elif self._sending is None:  # this is the start of a head, or the rest of a refused body
            self._sending = self.loop.call_later(self._seconds, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taking = _stopped(self._taking)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._sending, self._taking = _stopped(self._sending), _stopped(self._taking)

    def _watch(self, left: int) -> None:
        self._taking = self.loop.call_later(self._seconds, self._taken, left)

    def _taken(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._watch(left)
        else:
            self.transport.abort()


def _stopped(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
