"""Views, by what a visitor is looking at."""
