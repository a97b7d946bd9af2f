"""A weather server: forecasts and warnings of the US National Weather Service, and sunrise anywhere on Earth.

New here: a *typed function is a tool*. `tools/list` shows its name, its docstring and its parameters. The server checks
the arguments before the function runs, and sends a returned dataclass as text and as structured data. A plain `def`
function can wait, for example for the network, because it runs in a worker thread.

    python3 examples/weather.py                     serves over stdio (the command for your host)
    python3 -m mcp_ref list -- python3 examples/weather.py
    python3 -m mcp_ref call get_sunrise latitude=51.48 longitude=0 day=2025-06-21 -- python3 examples/weather.py

`get_sunrise` works offline. The other two tools call https://api.weather.gov, or the URL in the variable NWS_API.

Watch it fail: an impossible latitude, and a service that does not respond. Both results have `isError`.

    python3 -m mcp_ref call get_sunrise latitude=95 longitude=0 day=2025-06-21 -- python3 examples/weather.py
    python3 -m mcp_ref call get_alerts state=CA -- env NWS_API=http://127.0.0.1:9 python3 examples/weather.py
"""

import json
import os
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from math import acos, asin, cos, degrees, radians, sin
from typing import Annotated, Any
from urllib.request import Request, urlopen

from mcp_ref import Server, ToolAnnotations, ToolError

server = Server("weather", "1.0", instructions="Times are UTC. Forecasts and alerts exist for the United States only.")
API = os.environ.get("NWS_API", "https://api.weather.gov")
READS = ToolAnnotations(read_only_hint=True)

Latitude = Annotated[float, "Degrees, north is positive", {"minimum": -90, "maximum": 90}]
Longitude = Annotated[float, "Degrees, east is positive", {"minimum": -180, "maximum": 180}]


@dataclass
class Period:
    """Half a day of a forecast. The temperature is in degrees Fahrenheit."""

    name: str
    temperature: float
    forecast: str


@dataclass
class Sun:
    """Sunrise and sunset, to the minute. Both are empty if the sun does not rise or set on that day."""

    sunrise: datetime | None
    sunset: datetime | None
    daylight_hours: float


def fetch(url: str) -> dict[str, Any]:
    """Fetch JSON from the weather service. Refuse all other URLs, because a response can contain any URL."""
    if not url.startswith(API + "/"):
        raise ToolError(f"The weather service named a URL of another server: {url[:100]}")
    headers = {"User-Agent": "mcp_ref example weather server", "Accept": "application/geo+json"}
    try:
        with urlopen(Request(url, headers=headers), timeout=10) as response:
            return dict(json.loads(response.read(5_000_000)))
    except (OSError, ValueError) as error:
        raise ToolError(f"The weather service did not respond: {error}") from error


@server.tool(annotations=READS)
def get_forecast(latitude: Latitude, longitude: Longitude) -> list[Period]:
    """The weather of the next days at a place in the United States."""
    place = fetch(f"{API}/points/{latitude:.4f},{longitude:.4f}")["properties"]
    periods = fetch(place["forecast"])["properties"]["periods"]
    return [Period(each["name"], each["temperature"], each["detailedForecast"]) for each in periods]


@server.tool(annotations=READS)
def get_alerts(state: Annotated[str, "Two letters, such as CA", {"pattern": "^[A-Z]{2}$"}]) -> list[str]:
    """The weather warnings that are in force in one of the United States."""
    return [alert["properties"]["headline"] for alert in fetch(f"{API}/alerts/active?area={state}")["features"]]


@server.tool(annotations=READS)
def get_sunrise(latitude: Latitude, longitude: Longitude, day: date) -> Sun:
    """Compute sunrise and sunset with the sunrise equation, to a few minutes between the polar circles."""
    mean_noon = day.toordinal() - date(2000, 1, 1).toordinal() + 0.0009 - longitude / 360
    anomaly = radians(357.5291 + 0.98560028 * mean_noon)
    ecliptic = anomaly + radians(1.9148 * sin(anomaly) + 0.02 * sin(2 * anomaly) + 180 + 102.9372)
    noon = mean_noon + 0.0053 * sin(anomaly) - 0.0069 * sin(2 * ecliptic)
    declination = asin(sin(ecliptic) * sin(radians(23.4397)))
    height = sin(radians(-0.833)) - sin(radians(latitude)) * sin(declination)  # -0.833: sun's radius, refraction
    cosine = height / (cos(radians(latitude)) * cos(declination))
    if abs(cosine) > 1:
        return Sun(None, None, 24.0 if cosine < -1 else 0.0)  # the sun does not set, or does not rise
    half_day = degrees(acos(cosine)) / 360
    rise, set_ = (datetime(2000, 1, 1, 12, tzinfo=UTC) + timedelta(noon + each) for each in (-half_day, half_day))
    return Sun(rise.replace(second=0, microsecond=0), set_.replace(second=0, microsecond=0), round(48 * half_day, 1))


if __name__ == "__main__":
    server.run()
