"""Normalisations folded into the weights of the library's linear map: no kernel of ours."""
