"""How far ahead the ticks have sent messages. One row, which only ever moves forward."""

from pendulum import DateTime

from lamplighter.store.models import Catalog
from lamplighter.store.single import update_if

_KEY = ("tick", "look-ahead")


def covered_until() -> DateTime | None:
    """Return the instant up to which messages were sent."""
    try:
        return Catalog.get(*_KEY, consistent_read=True).covered_until
    except Catalog.DoesNotExist:
        return None


def raise_covered_until(instant: DateTime) -> None:
    """Record that messages were sent up to `instant`, unless another tick was further already."""
    is_ahead = Catalog.covered_until.does_not_exist() | (Catalog.covered_until < instant)
    update_if(Catalog(*_KEY), [Catalog.covered_until.set(instant)], is_ahead)
