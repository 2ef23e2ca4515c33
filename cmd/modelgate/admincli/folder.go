package admincli

// Names in the data folder. Scripts read those that say where the gateway is; they are there only while it runs.
const (
	FileURL        = "url"         // base URL of the gateway, without /v1
	FileAdmin      = "admin"       // URL of the admin API
	FileKey        = "key"         // the first key, 0600
	FileAdminToken = "admin-token" // lets the command line in at the admin API, 0600
	FilePepper     = "pepper"      // the root of all secrets that are kept, 0600
)
