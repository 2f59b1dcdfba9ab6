"""Definitions to versioned JSON and back. No pickle, no eval, no class outside a closed list."""

from lamplighter.serialization.dags import content_hash, decode_dag, encode_dag, to_json

__all__ = ["content_hash", "decode_dag", "encode_dag", "to_json"]
