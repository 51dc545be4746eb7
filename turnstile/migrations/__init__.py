"""Alembic migrations. A version never imports the product: its effect must not change with the product."""
