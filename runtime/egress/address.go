package egress

import "net/netip"

// reach is how far an address is from being somebody else's public server.
type reach uint8

const (
	public  reach = iota
	private       // loopback and internal networks: only with AllowPrivate
	never         // no policy opens it: link-local, metadata, multicast, reserved
)

type network struct {
	prefix string
	reach  reach
	why    string
}

// networks are the special ranges, the first match wins. Anything of IPv6 outside
// 2000::/3 that is not named here is reserved.
//
//nolint:gochecknoglobals // immutable table
var networks = parseNetworks([]network{
	// Metadata services outside the link-local range.
	{"100.100.100.200/32", never, "a metadata service"},
	{"168.63.129.16/32", never, "a metadata service"},
	{"192.0.0.192/32", never, "a metadata service"},
	{"fd00:ec2::/32", never, "a metadata service"},
	{"fd20:ce::254/128", never, "a metadata service"},

	{"0.0.0.0/8", never, "an unspecified address"},
	{"169.254.0.0/16", never, "a link-local address"},
	{"224.0.0.0/4", never, "a multicast address"},
	{"240.0.0.0/4", never, "a reserved address"},
	{"192.0.0.0/24", never, "a reserved address"},
	{"192.0.2.0/24", never, "a reserved address"},
	{"198.51.100.0/24", never, "a reserved address"},
	{"203.0.113.0/24", never, "a reserved address"},
	{"192.88.99.0/24", never, "a reserved address"},
	{"127.0.0.0/8", private, "a loopback address"},
	{"10.0.0.0/8", private, "a private address"},
	{"172.16.0.0/12", private, "a private address"},
	{"192.168.0.0/16", private, "a private address"},
	{"100.64.0.0/10", private, "a private address"},
	{"198.18.0.0/15", private, "a private address"},
	{"0.0.0.0/0", public, ""},

	{"::/128", never, "an unspecified address"},
	{"::1/128", private, "a loopback address"},
	{"fc00::/7", private, "a private address"},
	{"fec0::/10", private, "a private address"},
	{"fe80::/10", never, "a link-local address"},
	{"ff00::/8", never, "a multicast address"},
	{"2001::/23", never, "a reserved address"}, // Teredo and other protocols
	{"2001:db8::/32", never, "a reserved address"},
	{"3fff::/20", never, "a reserved address"},
	{"2000::/3", public, ""},
	{"::/0", never, "a reserved address"},
})

type parsedNetwork struct {
	netip.Prefix
	reach reach
	why   string
}

func parseNetworks(rows []network) []parsedNetwork {
	out := make([]parsedNetwork, len(rows))
	for i, row := range rows {
		out[i] = parsedNetwork{netip.MustParsePrefix(row.prefix), row.reach, row.why}
	}
	return out
}

// judge says how far addr reaches and, unless it is public, what it is. An address
// that carries another (IPv4-mapped, NAT64, 6to4) is judged by the one it carries,
// since that is where the packets end.
func judge(addr netip.Addr) (reach, string) {
	if addr.Zone() != "" {
		return never, "an address with a zone"
	}
	addr = addr.Unmap()
	if inner, ok := carried(addr); ok {
		return judge(inner)
	}
	for _, n := range networks {
		if n.Contains(addr) {
			return n.reach, n.why
		}
	}
	return never, "not an address"
}

// carried is the IPv4 address inside a NAT64 or 6to4 address.
func carried(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	nat64 := [12]byte{0x00, 0x64, 0xff, 0x9b}
	switch {
	case [12]byte(b[:12]) == nat64:
		return netip.AddrFrom4([4]byte(b[12:])), true
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
