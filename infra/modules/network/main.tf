# Ways to AWS that do not leave the VPC. With them the tasks need no NAT gateway, unless their handlers call a model outside.

data "aws_region" "here" {}

data "aws_partition" "here" {}

resource "aws_security_group" "endpoints" {
  name        = "${var.name}-endpoints"
  description = "HTTPS from the tasks to the endpoints, and nothing else"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "https" {
  for_each = var.client_security_group_ids

  security_group_id            = aws_security_group.endpoints.id
  description                  = "HTTPS from ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
}

resource "aws_vpc_endpoint" "interface" {
  for_each = var.services

  vpc_id              = var.vpc_id
  service_name        = "com.amazonaws.${data.aws_region.here.name}.${each.key}"
  vpc_endpoint_type   = "Interface"
  subnet_ids          = var.subnet_ids
  security_group_ids  = [aws_security_group.endpoints.id]
  private_dns_enabled = true
  tags                = merge(var.tags, { Name = "${var.name}-${each.key}" })
  # The roles say who may do what; this says that nobody carries messages to another account from here, nor uses credentials of
  # another account.
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { AWS = "*" }
      Action    = each.key == "sqs" ? "sqs:*" : "*"
      Resource  = each.key == "sqs" ? "arn:${data.aws_partition.here.partition}:sqs:${data.aws_region.here.name}:${var.account_id}:*" : "*"
      Condition = { StringEquals = { "aws:PrincipalAccount" = var.account_id } }
    }]
  })
}

# Without a policy: image layers come from a bucket of ECR's, by addresses that ECR has signed, and handlers may use buckets of their own.
resource "aws_vpc_endpoint" "s3" {
  vpc_id            = var.vpc_id
  service_name      = "com.amazonaws.${data.aws_region.here.name}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = var.route_table_ids
  tags              = merge(var.tags, { Name = "${var.name}-s3" })
}
