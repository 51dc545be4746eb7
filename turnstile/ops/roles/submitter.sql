-- An application that submits in its own transactions. The function runs as the owner of the tables: the application reads and writes none.
GRANT EXECUTE ON FUNCTION submit_turn TO {role};
