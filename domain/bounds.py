"""Whole numbers as callers may send them: no larger than every store, driver and JSON reader holds exactly."""

from typing import Annotated

from pydantic import Field

LARGEST = 2**53

FromZero = Annotated[int, Field(ge=0, le=LARGEST)]
FromOne = Annotated[int, Field(ge=1, le=LARGEST)]
