"""A server of ours whose tools use pydantic and annotated-types: run it where both are installed."""

from datetime import date
from typing import Annotated, Literal

from annotated_types import Interval, Len, MultipleOf
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, RootModel, StringConstraints, conint, field_validator

from mcp_ref import Server

server = Server("models")


class Stop(BaseModel):
    model_config = ConfigDict(extra="forbid")
    city: Annotated[str, StringConstraints(min_length=2)]
    kind: Literal["train", "bus"] = "train"
    arrives: date | None = Field(None, alias="arrivesOn")

    @field_validator("city")
    @classmethod
    def is_known(cls, city: str) -> str:
        if city == "Atlantis":
            raise ValueError("no train goes to Atlantis")
        return city


class Trip(BaseModel):
    stops: list[Stop] = Field(min_length=1)


class Total(RootModel[list[int]]):
    pass


@server.tool()
def plan(trip: Trip, seats: Annotated[int, Field(ge=1, le=9, description="How many")] = 1) -> Trip:
    return trip


@server.tool()
def total(
    numbers: Annotated[list[Annotated[int, Interval(ge=0, lt=100), MultipleOf(5)]], Len(1, 3)],
    more: PositiveInt | None = None,
    most: conint(le=3) = 1,
) -> Total:
    return Total([sum(numbers)])


if __name__ == "__main__":
    server.run()
