"""The worker as a Lambda function behind an SQS event source."""
