# Roles of what no emulator at hand runs, for `make infra-check`: the function's, and that of ECS's agent. They are applied alone, by -target,
# for the queues of examples/emulator.

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
  skip_metadata_api_check = true
}

variable "access" {
  description = "Output `access` of examples/emulator."
  type = map(object({
    arn         = string
    dlq_arn     = string
    kms_key_arn = optional(string)
  }))
}

resource "aws_secretsmanager_secret" "database_url" {
  name = "check-database-url"
}

locals {
  image   = "000000000000.dkr.ecr.us-east-1.amazonaws.com/turnstile@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  secrets = { DATABASE_URL = aws_secretsmanager_secret.database_url.arn }
}

module "function" {
  source = "../../modules/lambda"

  name               = "check-function"
  image              = local.image
  queue              = "turns"
  queues             = var.access
  visibility_seconds = 60
  timeout_seconds    = 10
  secrets            = local.secrets
  subnet_ids         = ["subnet-0123456789abcdef0"]
  security_group_ids = ["sg-0123456789abcdef0"]
}

module "service" {
  source = "../../modules/service"

  name               = "check-service"
  cluster_arn        = "arn:aws:ecs:us-east-1:000000000000:cluster/check"
  image              = local.image
  repository_arn     = "arn:aws:ecr:us-east-1:000000000000:repository/turnstile"
  command            = ["relay"]
  secrets            = local.secrets
  subnet_ids         = ["subnet-0123456789abcdef0"]
  security_group_ids = ["sg-0123456789abcdef0"]
}
