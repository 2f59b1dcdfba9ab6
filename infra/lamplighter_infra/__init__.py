"""The AWS CDK app that provisions a deployment. Nothing imports it."""
