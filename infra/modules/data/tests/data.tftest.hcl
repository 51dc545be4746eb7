# The parameters of the stores. That Postgres knows them is seen by tests/backends/postgres/test_production_postgres.py.

mock_provider "aws" {
  mock_resource "aws_db_instance" {
    defaults = { arn = "arn:aws:rds:eu-central-1:123456789012:db:test" }
  }
}

variables {
  name                      = "test"
  vpc_id                    = "vpc-0123456789abcdef0"
  subnet_ids                = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
  client_security_group_ids = { tasks = "sg-0123456789abcdef0" }
  redis_auth_token          = "0123456789abcdef"
}

run "nobody_gets_into_the_caches_without_the_password" {
  assert {
    condition     = alltrue([for cache in aws_elasticache_replication_group.redis : nonsensitive(cache.auth_token) == "0123456789abcdef" && cache.transit_encryption_enabled])
    error_message = "Both have it, and it goes over TLS."
  }
}

run "the_log_of_the_database" {
  assert {
    condition = {
      for one in aws_db_parameter_group.postgres.parameter : one.name => one.value
      if startswith(one.name, "log_parameter_max_length") || one.name == "log_error_verbosity"
    } == { log_parameter_max_length = "0", log_parameter_max_length_on_error = "0", log_error_verbosity = "terse" }
    error_message = "Statements and errors are logged without values and rows: these are what people have said."
  }
}
