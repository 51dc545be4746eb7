"""The retention: what the relays delete once it is old enough, so that no table grows for ever."""
