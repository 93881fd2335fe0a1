"""What each address answers; one file a kind of answer."""
