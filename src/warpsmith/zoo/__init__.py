"""The exploit zoo: known cheats as small files, each with an honest twin, and the runner that shows what the judge says of them."""
