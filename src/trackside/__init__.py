"""Trackside: the live dashboard that runs beside a PyTorch training job."""
