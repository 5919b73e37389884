"""File formats of captures: pcap, pcapng with our comments, and Kafka's JSON."""
