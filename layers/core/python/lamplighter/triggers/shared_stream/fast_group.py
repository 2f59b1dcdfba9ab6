"""A group whose source needs no acknowledgement: raw events go straight to the readers."""

from lamplighter.triggers.shared_stream.group import SharedStreamGroup
from lamplighter.triggers.shared_stream.subscriber import Subscriber


class FastGroup(SharedStreamGroup[Subscriber]):
    """Hands out the events of `open_shared_stream` and remembers none of them."""

    def _new_subscriber(self, trigger_id: int) -> Subscriber:
        return Subscriber(trigger_id)

    async def _read(self) -> None:
        async for raw in self._trigger_class.open_shared_stream(self._kwargs):
            if without_room := self._hand_out(raw):
                self._fail_overflowed(without_room)
