"""The stores. Only `windlass.app` imports them; everything else knows the port alone."""
