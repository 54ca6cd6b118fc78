"""The pages put together and served."""
