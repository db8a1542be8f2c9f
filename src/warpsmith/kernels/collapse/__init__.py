"""A linear map and the sum behind it as the map of a sum."""
