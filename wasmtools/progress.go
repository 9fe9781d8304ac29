package wasmtools

import "github.com/hermes-runtime/hermes/runtime/tool"

// progressReport passes on how far the guest is; the host drops what comes too fast.
func progressReport(c *call, raw []byte) int32 {
	var p tool.Progress
	if no := c.request(raw, &p); no != 0 {
		return no
	}
	if host := c.audit.of.Host; host != nil {
		host.Progress(c.ctx, p)
	}
	return c.parkFrame(struct{}{}, nil)
}
