# The status table's home: RDS for PostgreSQL, in two availability zones, reached by TLS only. Clients connect with
# sslmode=verify-full and the CA bundle of RDS, which is in the URL that Secrets Manager holds and not in Terraform.

resource "aws_db_subnet_group" "postgres" {
  name       = "${var.name}-postgres"
  subnet_ids = var.subnet_ids
  tags       = var.tags
}

resource "aws_security_group" "postgres" {
  name        = "${var.name}-postgres"
  description = "PostgreSQL from the tasks"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "postgres" {
  for_each = var.client_security_group_ids

  security_group_id            = aws_security_group.postgres.id
  description                  = "PostgreSQL from ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
}

locals {
  postgres_parameters = {
    "rds.force_ssl" = "1"
    # A turn's row is updated a few times and then left alone: dead rows are many and short-lived.
    "autovacuum_vacuum_scale_factor"  = "0.02"
    "autovacuum_analyze_scale_factor" = "0.02"
    "autovacuum_vacuum_cost_limit"    = "2000"
    # Statements are short. A transaction that is left open keeps vacuum from the hot table, and may hold the rows of turns. `turnstile
    # doctor` looks for it (`idle-in-transaction-timeout`).
    "idle_in_transaction_session_timeout" = "60000"
    "log_min_duration_statement"          = "500"
    # Without their values, which are what people and models have said; the log is exported, and kept longer than they may be.
    "log_parameter_max_length"          = "0"
    "log_parameter_max_length_on_error" = "0"
    # The DETAIL of a refused row would quote the whole row.
    "log_error_verbosity"         = "terse"
    "log_lock_waits"              = "1"
    "log_autovacuum_min_duration" = "10000"
  }
}

resource "aws_db_parameter_group" "postgres" {
  name_prefix = "${var.name}-"
  family      = "postgres${var.postgres_version}"
  tags        = var.tags

  dynamic "parameter" {
    for_each = local.postgres_parameters

    content {
      name  = parameter.key
      value = parameter.value
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_db_instance" "postgres" {
  identifier                      = "${var.name}-postgres"
  engine                          = "postgres"
  engine_version                  = var.postgres_version
  instance_class                  = var.instance_class
  db_name                         = "turnstile"
  username                        = "turnstile_owner"
  manage_master_user_password     = true
  master_user_secret_kms_key_id   = var.kms_key_arn
  multi_az                        = true
  db_subnet_group_name            = aws_db_subnet_group.postgres.name
  vpc_security_group_ids          = [aws_security_group.postgres.id]
  publicly_accessible             = false
  parameter_group_name            = aws_db_parameter_group.postgres.name
  storage_type                    = "gp3"
  allocated_storage               = var.storage_gib
  max_allocated_storage           = var.storage_gib * 4
  storage_encrypted               = true
  kms_key_id                      = var.kms_key_arn
  ca_cert_identifier              = "rds-ca-rsa2048-g1"
  backup_retention_period         = var.backup_days
  copy_tags_to_snapshot           = true
  performance_insights_enabled    = true
  enabled_cloudwatch_logs_exports = ["postgresql"]
  auto_minor_version_upgrade      = true
  allow_major_version_upgrade     = false
  apply_immediately               = false
  deletion_protection             = var.deletion_protection
  skip_final_snapshot             = !var.deletion_protection
  final_snapshot_identifier       = "${var.name}-postgres-final"
  tags                            = var.tags
}
