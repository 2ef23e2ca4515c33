package converse

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// blocks turns parts into blocks, with the cache points that they are marked with.
func (e *encoder) blocks(parts []turns.Part) ([]block, error) {
	var out []block
	for i := range parts {
		p := &parts[i]
		b, err := e.block(p)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = make([]block, 0, len(parts)-i)
		}
		out = e.cached(append(out, b), p.CacheControl)
	}
	return out, nil
}

func (e *encoder) block(p *turns.Part) (block, error) {
	switch {
	case p.Type == "text":
		return block{Text: p.Text}, nil
	case p.Type == "image_url" && p.ImageURL != nil:
		return e.file(fileSource{data: p.ImageURL.URL, param: p.Param + ".image_url.url", image: true})
	case p.Type == "input_audio" && p.InputAudio != nil:
		if p.InputAudio.Data == "" || audioFormats["audio/"+p.InputAudio.Format] == "" {
			return block{}, openai.BadValue(p.Param+".input_audio",
				"Audio of the format '%s' is not supported by this model's provider, or there is none.", p.InputAudio.Format)
		}
		return block{Audio: &media{Format: audioFormats["audio/"+p.InputAudio.Format],
			Source: mediaSource{Bytes: p.InputAudio.Data}}}, nil
	case p.Type == "file" && p.File != nil:
		if p.File.FileID != "" {
			return block{}, openai.BadValue(p.Param+".file.file_id",
				"Files by id are not supported by this model's provider. Send the content as 'file_data'.")
		}
		return e.file(fileSource{data: p.File.FileData, name: p.File.Filename, param: p.Param + ".file.file_data"})
	}
	return block{}, openai.BadValue(p.Param+".type", "Content of type '%s' is not supported by this model's provider.",
		p.Type)
}

// Formats of media, by media type.
var (
	imageFormats = map[string]string{"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif",
		"image/webp": "webp"}
	audioFormats = map[string]string{
		"audio/mp3": "mp3", "audio/mpeg": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav",
		"audio/opus": "opus", "audio/aac": "aac",
		"audio/flac": "flac", "audio/ogg": "ogg", "audio/mp4": "mp4", "audio/m4a": "m4a", "audio/x-m4a": "m4a",
		"audio/webm": "webm", "audio/pcm": "pcm",
		"audio/x-matroska": "mka",
	}
	videoFormats = map[string]string{
		"video/mp4": "mp4", "video/quicktime": "mov", "video/x-matroska": "mkv", "video/webm": "webm", "video/x-flv": "flv",
		"video/mpeg": "mpeg",
		"video/mpg":  "mpg", "video/x-ms-wmv": "wmv", "video/3gpp": "three_gp",
	}
	documentFormats = map[string]string{
		"application/pdf": "pdf", "text/csv": "csv", "application/msword": "doc", "application/vnd.ms-excel": "xls",
		"text/html": "html", "text/plain": "txt",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
		"text/markdown": "md",
	}
)

// extensions are the media types of files whose names alone say what they are.
var extensions = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".mp3": "audio/mp3", ".wav": "audio/wav", ".flac": "audio/flac", ".ogg": "audio/ogg", ".m4a": "audio/m4a",
	".mp4": "video/mp4", ".mov": "video/quicktime", ".mkv": "video/x-matroska", ".webm": "video/webm",
	".mpeg": "video/mpeg", ".wmv": "video/x-ms-wmv",
	".pdf": "application/pdf", ".csv": "text/csv", ".doc": "application/msword", ".xls": "application/vnd.ms-excel",
	".html": "text/html",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".txt":  "text/plain", ".md": "text/markdown",
}

// A fileSource is a file as the client sends it: a data URI, base64, or where it is in S3.
type fileSource struct {
	data, name, param string
	image             bool // it must be an image
}

func (e *encoder) file(f fileSource) (block, error) {
	if location, ok := strings.CutPrefix(f.data, "s3://"); ok {
		location, query, _ := strings.Cut(location, "?")
		owner, _ := url.ParseQuery(query) // what cannot be read is no owner
		if f.name == "" {
			f.name = path.Base(location)
		}
		source := mediaSource{S3Location: &s3Location{URI: "s3://" + location, BucketOwner: owner.Get("bucketOwner")}}
		return e.media(f, extensions[strings.ToLower(path.Ext(location))], source)
	}
	if strings.HasPrefix(f.data, "https://") || strings.HasPrefix(f.data, "http://") {
		return block{}, openai.BadValue(f.param,
			"Files by URL are not supported by this model's provider. Send the content as a base64 data URI, or an s3:// location.")
	}
	mediaType, data, ok := turns.DataURI(f.data)
	if !ok && (f.image || f.data == "" || strings.HasPrefix(f.data, "data:")) {
		return block{}, openai.CodeInvalidValue.On(f.param,
			"Invalid '%s': expected a base64 data URI or an s3:// location.", f.param)
	}
	if !ok {
		data, ok = turns.Base64(f.data)
	}
	head := make([]byte, 512)
	n, err := base64.StdEncoding.Decode(head, []byte(data[:min(680, len(data)/4*4)]))
	if err != nil || !ok {
		return block{}, openai.CodeInvalidBase64.On(f.param, "Invalid '%s': expected base64.", f.param)
	}
	return e.media(f, f.mediaType(mediaType, head[:n]), mediaSource{Bytes: data})
}

// mediaType returns what a file is: what its first bytes say, which models check, or else what is declared, or else
// what its name says.
func (f *fileSource) mediaType(declared string, head []byte) string {
	switch found := http.DetectContentType(head); {
	case imageFormats[found] != "", found == "application/pdf":
		return found
	case imageFormats[declared]+audioFormats[declared]+videoFormats[declared]+documentFormats[declared] != "":
		return declared
	}
	if byName := extensions[strings.ToLower(path.Ext(f.name))]; byName != "" {
		return byName
	}
	if strings.HasPrefix(http.DetectContentType(head), "text/plain") || len(head) > 0 &&
		strings.HasPrefix(declared, "text/") {
		return "text/plain"
	}
	return declared
}

func (e *encoder) media(f fileSource, mediaType string, source mediaSource) (block, error) {
	image, document := imageFormats[mediaType], documentFormats[mediaType]
	switch {
	case image != "":
		return block{Image: &media{Format: image, Source: source}}, nil
	case f.image && mediaType != "application/pdf":
		return block{}, openai.CodeInvalidImageFormat.On(f.param,
			"Images of the type '%s' are not supported. Send JPEG, PNG, GIF or WebP.", mediaType)
	case document != "":
		return block{Document: &media{Format: document, Name: e.documentName(f.name), Source: source}}, nil
	case videoFormats[mediaType] != "":
		return block{Video: &media{Format: videoFormats[mediaType], Source: source}}, nil
	case audioFormats[mediaType] != "":
		return block{Audio: &media{Format: audioFormats[mediaType], Source: source}}, nil
	}
	return block{}, openai.BadValue(f.param, "The file '%s' of the type '%s' is not supported by this model's provider.",
		f.name, mediaType)
}

// maxDocumentName is the vendor's limit less what makes a name unique.
const maxDocumentName = 190

// documentName returns a name as the vendor wants one: letters, digits, single blanks, hyphens and brackets, and each
// once.
func (e *encoder) documentName(filename string) string {
	filename = strings.TrimSuffix(filename, path.Ext(filename))
	clean := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-()[]", r)) {
			return r
		}
		return ' '
	}, filename)
	clean = strings.Join(strings.Fields(clean), " ")
	clean = strings.TrimSpace(clean[:min(len(clean), maxDocumentName)])
	if clean == "" {
		clean = "Document"
	}
	if e.documents == nil {
		e.documents = map[string]int{}
	}
	unique := clean
	for e.documents[unique] > 0 {
		e.documents[clean]++
		unique = clean + " " + strconv.Itoa(e.documents[clean])
	}
	e.documents[unique]++
	return unique
}
