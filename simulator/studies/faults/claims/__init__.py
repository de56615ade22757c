"""Published claims about faults of tensor cores and networks, each tried on the layers that come with tcsim:
`tcsim faults claim NAME`, docs/faults_claims.md."""
