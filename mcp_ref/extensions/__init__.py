"""Official extensions of the protocol: parts that both peers must declare before either uses them."""
