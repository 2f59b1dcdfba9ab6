"""State in DynamoDB: the models of nine tables and the transactions on them."""
