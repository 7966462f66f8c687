"""Where the world comes in: environment, clock, standard streams. Nothing below reads them."""
