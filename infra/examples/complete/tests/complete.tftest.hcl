# What the modules must agree on where they are put together. Run with imaginary.tfvars, as the plan is.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_secretsmanager_secret_version" {
    defaults = { secret_string = "0123456789abcdef" }
  }
}

run "the_caches_have_a_password" {
  command = plan

  variables {
    check_account = true
  }

  assert {
    condition     = data.aws_secretsmanager_secret_version.redis_auth_token[0].secret_id == var.redis_auth_token_secret_arn
    error_message = "It is read from the secret, whose value is in no file."
  }
}

run "a_failover_of_the_database_costs_no_task" {
  command = plan

  assert {
    condition     = aws_lb_target_group.api.health_check[0].path == "/healthz"
    error_message = "ECS replaces every task that its target group calls unhealthy: an outage behind the API must not make it so."
  }
}

run "requests_are_recorded_where_there_is_a_bucket" {
  command = plan

  variables {
    access_logs_bucket = "records"
  }

  assert {
    condition     = one(aws_lb.api.access_logs).bucket == "records" && one(aws_lb.api.access_logs).enabled
    error_message = "The API has no line for a read: without the load balancer's, nobody could say what a stolen key has read."
  }
}

run "without_a_bucket_none_are_recorded" {
  command = plan

  assert {
    condition     = length(aws_lb.api.access_logs) == 0
    error_message = "A plan without a bucket must hold."
  }
}

run "one_lease_for_all" {
  command = plan

  variables {
    lease_seconds = 45
  }

  assert {
    condition = (
      module.turns.lease_seconds == 45 && module.strict.lease_seconds == 45
      && local.environment.TURNSTILE_LEASE_SECONDS == "45"
    )
    error_message = "A lease that one queue's visibility timeout does not bear would let no process start: each is checked against the same."
  }
}

run "the_owner_of_the_tables" {
  command = plan

  assert {
    condition = (
      aws_secretsmanager_secret.owner.name == "turnstile/owner/DATABASE_URL"
      && [for one in module.migrate.container_definition.secrets : one.name] == ["DATABASE_URL"]
    )
    error_message = "Only migrations are made by the owner of the tables, and they need nothing else."
  }

  assert {
    condition     = module.migrate.service_name == null
    error_message = "A task that ends is not a service."
  }
}

run "each_kind_of_process_has_its_own_role_of_the_database" {
  command = plan

  assert {
    condition = { for kind, secret in aws_secretsmanager_secret.database : kind => secret.name } == {
      for kind in ["api", "operator", "relay", "worker"] : kind => "turnstile/${kind}/DATABASE_URL"
    }
    error_message = "A process that is broken into has the rights of its kind alone."
  }
}

run "no_client_s_key_is_a_setting" {
  command = plan

  assert {
    condition = toset([for one in module.api.container_definition.secrets : one.name]) == toset([
      "DATABASE_URL", "REDIS_URL", "TURNSTILE_MEMORY_REDIS_URL",
    ])
    error_message = "Keys are rows of the database, made and revoked without a deploy."
  }
}

run "contents_are_sealed_by_the_api_and_the_workers" {
  command = plan

  variables {
    sealing_keys_file   = "/app/sealing.json"
    sealing_kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000001"
  }

  assert {
    condition = toset([
      for name, module in merge({ api = module.api, relay = module.relay, operator = module.operator }, { for queue, worker in module.worker : "worker-${queue}" => worker }) :
      name if contains([for one in module.container_definition.environment : "${one.name}=${one.value}"], "TURNSTILE_SEALING_KEYS_FILE=/app/sealing.json")
    ]) == toset(["api", "worker-turns", "worker-strict"])
    error_message = "Who has the file of keys is who may open them."
  }
}

run "keys_of_contents_that_no_role_may_open" {
  command = plan

  variables {
    sealing_keys_file = "/app/sealing.json"
  }

  expect_failures = [var.sealing_kms_key_arn]
}

run "operators_have_a_task_of_their_own" {
  command = plan

  assert {
    condition     = module.operator.service_name == null && join(" ", module.operator.container_definition.command) == "doctor"
    error_message = "What is run without a word looks and changes nothing, and ends."
  }

  assert {
    condition = toset([for one in module.operator.container_definition.secrets : one.name]) == toset([
      "DATABASE_URL", "REDIS_URL", "TURNSTILE_MEMORY_REDIS_URL",
    ])
    error_message = "The stores, and no client's key."
  }
}

run "an_api_that_is_gone_pages" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.api_down.treat_missing_data == "breaching"
    error_message = "Where no target is left, no metric is reported at all."
  }
}

run "the_outputs_have_what_a_deployment_by_hand_needs" {
  command = plan

  assert {
    condition     = output.cluster == "turnstile" && toset(keys(output.redis_addresses)) == toset(["locks", "memory"])
    error_message = "run-task needs the cluster, and REDIS_URL and its sister a host each."
  }
}

run "what_it_stands_on_is_watched" {
  command = plan

  assert {
    condition     = toset(keys(module.data.redis_nodes)) == toset(["locks-1", "locks-2", "memory-1", "memory-2"]) && module.data.redis_nodes["locks-1"] == "turnstile-locks-001"
    error_message = "Every node of every cache."
  }
}

run "no_telemetry_unless_asked" {
  command = plan

  assert {
    condition = length(aws_vpc_security_group_ingress_rule.metrics) == 0 && alltrue([
      for one in concat([module.api, module.relay, module.migrate, module.operator], values(module.worker)) : alltrue([
        for variable in one.container_definition.environment : !startswith(variable.name, "OTEL_") && variable.name != "TURNSTILE_METRICS_PORT"
      ])
    ])
    error_message = "It listens nowhere and sends nothing."
  }
}

run "metrics_for_named_groups_only" {
  command = plan

  variables {
    metrics_port               = 9464
    metrics_security_group_ids = { prometheus = "sg-0123456789abcdef0" }
  }

  assert {
    condition = alltrue([
      for one in concat([module.api, module.relay], values(module.worker)) : contains([for port in one.container_definition.portMappings : port.containerPort], 9464)
      ]) && alltrue([
      for one in [module.migrate, module.operator] : length(one.container_definition.portMappings) == 0
    ])
    error_message = "API, relay and workers serve metrics; a task that ends does not."
  }

  assert {
    condition = { for name, one in aws_vpc_security_group_ingress_rule.metrics : name => "${one.referenced_security_group_id} ${one.from_port} ${one.to_port} ${coalesce(one.cidr_ipv4, "no address")}" } == {
      prometheus = "sg-0123456789abcdef0 9464 9464 no address"
    }
    error_message = "One group, one port."
  }
}

run "groups_and_no_port" {
  command = plan

  variables {
    metrics_security_group_ids = { prometheus = "sg-0123456789abcdef0" }
  }

  expect_failures = [var.metrics_security_group_ids]
}

run "tasks_reach_only_what_they_need" {
  command = plan

  assert {
    condition = { for port, one in aws_vpc_security_group_egress_rule.from_tasks : port => "${one.ip_protocol} ${one.from_port} ${one.to_port}" } == {
      443 = "tcp 443 443", 5432 = "tcp 5432 5432", 6379 = "tcp 6379 6379"
    }
    error_message = "HTTPS, Postgres and Redis, and nothing else."
  }
}

run "telemetry_of_all_tasks" {
  command = plan

  variables {
    telemetry = { OTEL_EXPORTER_OTLP_ENDPOINT = "http://collector.internal:4318", OTEL_TRACES_SAMPLER = "parentbased_traceidratio" }
  }

  assert {
    condition = alltrue([
      for one in concat([module.api, module.relay, module.migrate, module.operator], values(module.worker)) : contains(
        one.container_definition.environment, { name = "OTEL_EXPORTER_OTLP_ENDPOINT", value = "http://collector.internal:4318" }
      )
    ])
    error_message = "Processes that export to different places have halves of a trace."
  }

  assert {
    condition     = aws_vpc_security_group_egress_rule.from_tasks["4318"].to_port == 4318
    error_message = "They must reach the collector."
  }
}

run "telemetry_that_is_something_else" {
  command = plan

  variables {
    telemetry = { TURNSTILE_LEASE_SECONDS = "3" }
  }

  expect_failures = [var.telemetry]
}
