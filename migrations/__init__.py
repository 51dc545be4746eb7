"""Alembic migrations. A version never imports the product: what it did must not change when the product does."""
