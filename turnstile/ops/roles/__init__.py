"""What the role of each kind of process may do in the database. `NAME.sql` has the rights of the kind NAME."""
