"""The KV pool's pages and the radix tree over them."""
