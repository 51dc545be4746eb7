# Turnstile whole, in a VPC that exists: two queues, API, workers, relay, their roles, scaling, alarms, endpoints, database and caches.
# What is secret stands in Secrets Manager and is put there by hand: infra/README.md.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

provider "aws" {
  region              = var.region
  allowed_account_ids = var.check_account ? [var.account_id] : null
  # For `make infra-check`, which has neither an account nor a network.
  skip_credentials_validation = !var.check_account
  skip_requesting_account_id  = !var.check_account
  skip_metadata_api_check     = !var.check_account

  default_tags {
    tags = { project = "turnstile", deployment = var.name }
  }
}

# --- queues

module "turns" {
  source = "../../modules/queue"

  name             = "turns"
  purpose          = "answers the turns of conversations"
  owner            = coalesce(var.handler_owner, var.owner)
  prefix           = "${var.name}-"
  lease_seconds    = var.lease_seconds
  vpc_endpoint_ids = [module.network.sqs_endpoint_id]
}

module "strict" {
  source = "../../modules/queue"

  name             = "strict"
  purpose          = "answers turns whose failure halts the conversation"
  owner            = coalesce(var.handler_owner, var.owner)
  prefix           = "${var.name}-"
  lease_seconds    = var.lease_seconds
  fifo             = true
  on_failure       = "halt"
  vpc_endpoint_ids = [module.network.sqs_endpoint_id]
}

locals {
  queues = { turns = module.turns, strict = module.strict }
}

# --- who may do what

module "roles" {
  source = "../../modules/roles"

  name        = var.name
  cluster_arn = aws_ecs_cluster.cluster.arn
  queues      = { for name, queue in local.queues : name => queue.access }

  sealing_kms_key_arn = var.sealing_kms_key_arn
}

# --- processes

resource "aws_ecs_cluster" "cluster" {
  name = var.name

  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_secretsmanager_secret" "setting" {
  for_each = toset(["REDIS_URL", "TURNSTILE_MEMORY_REDIS_URL"])

  name = "${var.name}/${each.key}"
}

# The URL of each kind of process, with its own role: each may do what `turnstile grant` gives it, and no more.
resource "aws_secretsmanager_secret" "database" {
  for_each = toset(["api", "worker", "relay", "operator"])

  name = "${var.name}/${each.key}/DATABASE_URL"
}

# The URL of the role that owns the tables, and nothing but `migrate` gets it: the others can't change what they work on.
resource "aws_secretsmanager_secret" "owner" {
  name = "${var.name}/owner/DATABASE_URL"
}

locals {
  secret_arns = { for name, secret in aws_secretsmanager_secret.setting : name => secret.arn }
  stores = {
    for kind, secret in aws_secretsmanager_secret.database : kind => merge(local.secret_arns, { DATABASE_URL = secret.arn })
  }

  environment = merge(var.telemetry, {
    AWS_REGION       = var.region
    TURNSTILE_QUEUES = jsonencode([for queue in values(local.queues) : queue.declaration])
    # One for all: every process holds it against the visibility timeout of every queue, and refuses to start where one is shorter.
    TURNSTILE_LEASE_SECONDS = tostring(var.lease_seconds)
  })

  # Of the processes that open contents.
  sealing = { for name, file in { TURNSTILE_SEALING_KEYS_FILE = var.sealing_keys_file } : name => file if file != null }

  service = {
    cluster_arn        = aws_ecs_cluster.cluster.arn
    image              = var.image
    repository_arn     = var.repository_arn
    subnet_ids         = var.private_subnet_ids
    security_group_ids = [aws_security_group.tasks.id]
  }
}

module "api" {
  source = "../../modules/service"

  name               = "${var.name}-api"
  cluster_arn        = local.service.cluster_arn
  image              = local.service.image
  repository_arn     = local.service.repository_arn
  subnet_ids         = local.service.subnet_ids
  security_group_ids = local.service.security_group_ids
  command            = ["api"]
  task_role_arn      = module.roles.arns["api"]
  port               = 8080
  metrics_port       = var.metrics_port
  target_group_arn   = aws_lb_target_group.api.arn
  environment        = merge(local.environment, local.sealing, { TURNSTILE_API_HOST = "0.0.0.0", TURNSTILE_API_PORT = "8080" })
  secrets            = local.stores["api"]
}

module "worker" {
  source   = "../../modules/service"
  for_each = local.queues

  name               = "${var.name}-worker-${each.key}"
  cluster_arn        = local.service.cluster_arn
  image              = local.service.image
  repository_arn     = local.service.repository_arn
  subnet_ids         = local.service.subnet_ids
  security_group_ids = local.service.security_group_ids
  command            = ["worker", "--queue", each.key, "--no-relay"]
  task_role_arn      = module.roles.arns["worker-${each.key}"]
  port               = 8081
  metrics_port       = var.metrics_port
  start_seconds      = var.worker_start_seconds
  secrets            = local.stores["worker"]
  environment = merge(local.environment, local.sealing, {
    TURNSTILE_HANDLER     = var.handler
    TURNSTILE_HEALTH_PORT = "8081"
    # The beginning of the image's digest: `turnstile workers` and `stats --by release` show which deploy a worker is of.
    TURNSTILE_RELEASE = substr(regex("[^:]+$", var.image), 0, 12)
  })
}

module "relay" {
  source = "../../modules/service"

  name               = "${var.name}-relay"
  cluster_arn        = local.service.cluster_arn
  image              = local.service.image
  repository_arn     = local.service.repository_arn
  subnet_ids         = local.service.subnet_ids
  security_group_ids = local.service.security_group_ids
  command            = ["relay"]
  task_role_arn      = module.roles.arns["relay"]
  metrics_port       = var.metrics_port
  cpu                = 256
  memory             = 512
  environment        = local.environment
  secrets            = local.stores["relay"]
}

# `turnstile migrate` before each new version: it makes the tables, so it has the role that owns them.
module "migrate" {
  source = "../../modules/service"

  name               = "${var.name}-migrate"
  one_off            = true
  cluster_arn        = local.service.cluster_arn
  image              = local.service.image
  repository_arn     = local.service.repository_arn
  subnet_ids         = local.service.subnet_ids
  security_group_ids = local.service.security_group_ids
  command            = ["migrate"]
  cpu                = 256
  memory             = 512
  environment        = local.environment
  secrets            = { DATABASE_URL = aws_secretsmanager_secret.owner.arn }
}

# The commands of the runbooks, each with `--overrides`: infra/README.md. By itself it looks and changes nothing.
module "operator" {
  source = "../../modules/service"

  name               = "${var.name}-operator"
  one_off            = true
  cluster_arn        = local.service.cluster_arn
  image              = local.service.image
  repository_arn     = local.service.repository_arn
  subnet_ids         = local.service.subnet_ids
  security_group_ids = local.service.security_group_ids
  command            = ["doctor"]
  task_role_arn      = module.roles.arns["operator"]
  cpu                = 256
  memory             = 512
  environment        = local.environment
  secrets            = local.stores["operator"]
}

module "scaling" {
  source   = "../../modules/scaling"
  for_each = local.queues

  cluster_name = aws_ecs_cluster.cluster.name
  service_name = module.worker[each.key].service_name
  sqs_name     = each.value.sqs_name
  backlog      = { namespace = module.alarms.namespace, queue = each.key }
  maximum      = var.maximum_workers
}

# --- what is watched

module "alarms" {
  source = "../../modules/alarms"

  name        = var.name
  page_emails = var.page_emails
  # Workers run with --no-relay.
  relay_log_groups = [module.relay.log_group_name]
  queues = {
    for name, queue in local.queues : name => {
      sqs_name         = queue.sqs_name
      dlq_name         = queue.dlq_name
      worker_log_group = module.worker[name].log_group_name
      timeout_seconds  = queue.declaration.timeout_seconds
      owner            = var.handler_owner
    }
  }
  owner    = var.owner
  runbooks = var.runbooks
  services = {
    for name, service in merge({ api = module.api, relay = module.relay }, { for queue, worker in module.worker : "worker-${queue}" => worker }) :
    name => { cluster_name = aws_ecs_cluster.cluster.name, service_name = service.service_name, service_arn = service.service_arn }
  }
  postgres      = module.data.postgres
  redis_nodes   = module.data.redis_nodes
  load_balancer = { load_balancer = aws_lb.api.arn_suffix, target_group = aws_lb_target_group.api.arn_suffix }
}

# --- what it stands on

module "network" {
  source = "../../modules/network"

  name                      = var.name
  vpc_id                    = var.vpc_id
  subnet_ids                = var.private_subnet_ids
  route_table_ids           = var.private_route_table_ids
  client_security_group_ids = { tasks = aws_security_group.tasks.id }
  account_id                = var.account_id
}

# Made by hand before the first apply: caches can't be made with a password that is not there yet.
data "aws_secretsmanager_secret_version" "redis_auth_token" {
  count = var.check_account ? 1 : 0

  secret_id = var.redis_auth_token_secret_arn
}

module "data" {
  source = "../../modules/data"

  name                      = var.name
  vpc_id                    = var.vpc_id
  subnet_ids                = var.private_subnet_ids
  client_security_group_ids = { tasks = aws_security_group.tasks.id }
  redis_auth_token          = one(data.aws_secretsmanager_secret_version.redis_auth_token[*].secret_string)
}
