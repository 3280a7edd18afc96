"""Tests of Amazon Bedrock in botocore, which boto3 sends through."""
