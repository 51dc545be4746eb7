"""What the definitions of all tables share."""

from sqlalchemy import DateTime, MetaData, text

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "ck": "%(table_name)s_%(constraint_name)s",
        "ix": "%(table_name)s_%(column_0_name)s",
    }
)

Time = DateTime(timezone=True)
NOW = text("clock_timestamp()")
