"""AWS on this machine: moto, guarded and made quick, and DynamoDB Local."""
