"""State in DynamoDB: models, transactions, and queries by subject. Nothing else touches tables."""
