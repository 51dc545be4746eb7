-- The roles of the processes of compose.yaml. The image of Postgres runs this once, when it makes the database.
CREATE ROLE turnstile_schema LOGIN PASSWORD 'schema';
CREATE ROLE turnstile_api LOGIN PASSWORD 'api';
CREATE ROLE turnstile_worker LOGIN PASSWORD 'worker';
CREATE ROLE turnstile_operator LOGIN PASSWORD 'operator';
CREATE SCHEMA turnstile AUTHORIZATION turnstile_schema;
