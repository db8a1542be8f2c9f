"""Bilinear and nearest upsampling."""
