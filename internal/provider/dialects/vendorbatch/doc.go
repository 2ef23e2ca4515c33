// Package vendorbatch runs batches with the batch API of a vendor. It writes the lines of a batch as the vendor gets
// them, and reads their answers. [OpenAI] uses OpenAI's batch API, which other vendors have too.
//
// A batch may be submitted twice if a replica stops between the request and its answer. So the vendor's copy has the
// gateway's id, and is looked for first.
package vendorbatch
