"""What may happen around any request: it is cancelled, it reports progress, or one side asks whether the other
lives."""
