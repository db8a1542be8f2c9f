"""Attention: softmax(Q Kᵀ + mask) V with what surrounds it."""
