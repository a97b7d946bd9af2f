"""Tasks: requests whose result is fetched later. A part of 2025-11-25, an extension since 2026-07-28."""
