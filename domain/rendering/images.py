"""What an image costs, by the formula of the provider: its size and detail count, never the text of its bytes.

An image of unknown size is taken as the dearest that the provider would make of it, so that no budget is broken.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from domain.events import ImagePart
from domain.rendering.neutral import Neutral

LOW = 85
TILE, PER_TILE = 512, 170
SQUARE, SHORT_SIDE = 2048, 768

LONG_SIDE = 1568
PIXELS_PER_TOKEN, MOST = 750, 1600

Costs = Mapping[str, int]
"""Tokens of images by the URL or the data under which they stand in a payload."""

NO_SIZES: Costs = {}
"""What is known of images whose sizes nobody told."""


def images(messages: Sequence[Neutral]) -> Iterator[ImagePart]:
    """The images that are sent as such: those of users and assistants; a tool's answer names them in its text."""
    for message in messages:
        if message.role != "tool":
            yield from (part for part in message.parts if isinstance(part, ImagePart))


def by_tiles(image: ImagePart) -> int:
    """OpenAI: scaled into a square of 2,048, then to a short side of 768, 170 for each tile of 512 begun, and 85; at
    low detail 85 alone. Without a size: the eight tiles that the most stretched image has."""
    if image.detail == "low":
        return LOW
    if not image.width or not image.height:
        return LOW + PER_TILE * math.ceil(SQUARE / TILE) * math.ceil(SHORT_SIDE / TILE)
    scale = min(1.0, SQUARE / max(image.width, image.height))
    scale *= min(1.0, SHORT_SIDE / (scale * min(image.width, image.height)))
    across, down = (max(1, math.ceil(round(side * scale, 6) / TILE)) for side in (image.width, image.height))
    return LOW + PER_TILE * across * down


def by_area(image: ImagePart) -> int:
    """Anthropic: scaled to a long side of 1,568, a token for each 750 pixels, 1,600 at the most. Without a size:
    1,600."""
    if not image.width or not image.height:
        return MOST
    scale = min(1.0, LONG_SIDE / max(image.width, image.height))
    wide, high = max(1.0, image.width * scale), max(1.0, image.height * scale)
    return min(MOST, math.ceil(round(wide * high / PIXELS_PER_TOKEN, 6)))
